"""The hub: who asks, what they may reach, which server answers, and the way of every call between them."""
