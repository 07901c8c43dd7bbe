"""The sketches; each family is a type, because its neighbours decide which mechanism may release it."""
