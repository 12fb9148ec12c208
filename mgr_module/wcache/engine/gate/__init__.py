"""What a rollout's waves need of the world: a look before each, and the blocks they go by."""
