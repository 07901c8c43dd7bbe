"""SQL: tables and statements. Nothing here commits; a use case owns the transaction."""
