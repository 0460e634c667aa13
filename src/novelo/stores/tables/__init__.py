"""What stores over tables have in common: the turn protocol, reading, changes, forks, checkpoints, documents."""
