"""The client behind the commands: it speaks HTTP to any server and knows nothing of the service's insides."""
