"""From estimates to recommendations: pooling, loads and their weights, many drive models."""
