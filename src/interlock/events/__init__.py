"""Events of the hub for every subscriber: typed events, one bus, subscriptions with bounds.

The bus tells and never decides. State that authorizes is read from mirrors of the store, and consumers that must not
miss anything keep a cursor in the store. `docs/events.md` lists every event.
"""

from .bus import Bus
from .subscriber import OnDemandSubscriber, SubscriberTask
from .subscription import EventFilter, Subscription
from .types import Gap

__all__ = ["Bus", "EventFilter", "Gap", "OnDemandSubscriber", "SubscriberTask", "Subscription"]
