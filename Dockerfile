# syntax=docker/dockerfile:1
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# A compiler for the kernel; it stays behind in this stage. Without it the image would work too, many times slower.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
# "postgresql,arrow" also reads Parquet and Arrow.
ARG EXTRAS=postgresql
WORKDIR /src
COPY requirements.lock pyproject.toml hatch_build.py README.md LICENSE ./
COPY app app
COPY migrations migrations
# The lock pins the service as well as its tools. As a constraint it gives uv the version and the hashes of each package
# that the service needs, and nothing else is installed.
RUN awk '/^uv==/ {on = 1} on && /^[^ ]/ && !/^uv==/ {exit} on' requirements.lock > uv.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement uv.lock \
 && python -m venv --without-pip /opt/discreet \
 && /opt/build/bin/uv pip install --no-cache --python /opt/discreet/bin/python \
      --constraint requirements.lock --build-constraint requirements.lock ".[${EXTRAS}]"

FROM ${BASE}
LABEL org.opencontainers.image.title="Discreet" \
      org.opencontainers.image.description="Differentially private histograms of event streams" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --home-dir /data --create-home discreet
COPY --from=build /opt/discreet /opt/discreet
ENV PATH=/opt/discreet/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DISCREET_HOST=0.0.0.0 \
    DISCREET_DATABASE_URL=sqlite:////data/discreet.db
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f\"http://127.0.0.1:{os.environ.get('DISCREET_PORT', '8000')}/readyz\", timeout=2)"]
CMD ["discreet", "serve"]
