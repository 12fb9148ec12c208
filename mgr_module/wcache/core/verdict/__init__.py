"""From estimates to recommendations: pools of drives, loads with their weights."""
