"""Pure judgement on values: no I/O, no clock, no state. Every judge returns findings; none means nothing is wrong."""
