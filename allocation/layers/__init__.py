"""What a pod must pass before it runs on its devices, layer by layer (`walk.LAYERS`)."""
