"""Events of servers and webhooks, in the order in which one passes: intake, wake, delivery, touch.

- `documents`: the stored forms.
- `intake`, `webhook_intake`: an event is recognized, decided about, and committed with its answer.
- `wake*`: whether an event wakes its agent, for a group of events, and how the operator's webhook is told.
- `deliver*`: events that wait for an agent, and the ways by which the agent gets them.
- `touch*`: agents that were given text from outside, and the gate that asks a person because of it.
- `passed_messages`, `usage`: messages that clients were given, and counts of all of them.
"""
