"""From a question to ranked passages: the seams, and what is behind them."""
