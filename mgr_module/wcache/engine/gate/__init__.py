"""What a rollout's waves need of the world: a look before each, then blocks to judge by."""
