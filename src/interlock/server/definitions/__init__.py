"""The definitions that a server offers: tools, resources and prompts, and the functions behind them."""
