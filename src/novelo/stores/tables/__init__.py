"""What the stores that keep tables have in common: the turn protocol, reading, changes, forks, checkpoints, documents."""
