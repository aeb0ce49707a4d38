"""Commands for conversations: with models, over channels of servers, and in rooms."""
