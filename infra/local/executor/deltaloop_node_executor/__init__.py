"""LocalStack's Lambda, with a Node process of this machine where the container would be."""
