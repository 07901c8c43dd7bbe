"""An Idempotency-Key as it is stored: hashed with the caller's own secret."""

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import Self


@dataclass(frozen=True, slots=True)
class Claim:
    """`key` tells which request is meant, `fingerprint` what was asked.

    The secret is in neither the database nor another caller's hands. So a dump of the database gives no way to
    test a guess about a batch, and neither does sending the guess under somebody else's idempotency key.
    """

    key: bytes
    fingerprint: bytes

    @classmethod
    def of(cls, *, secret: str, operation: str, target: str, key: str, content: bytes) -> Self:
        request = [operation.encode(), target.encode(), key.encode()]
        return cls(_keyed(secret, [b"claim", *request]), _keyed(secret, [b"request", *request, content]))


def _keyed(secret: str, parts: list[bytes]) -> bytes:
    digest = hmac.new(secret.encode(), digestmod=sha256)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
