"""The client behind the commands: it speaks HTTP to any server and knows nothing of the service's insides.

`commands` has a module for each group of commands, `ingest` turns files into requests, `terminal` shows results.
"""
