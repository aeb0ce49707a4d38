"""The parts that a hub is put together from. Each is made on those before it, in the order of this list.

`ground`, `admitting`, `deciding`, `showing`, `calling`; `hub/assembly.py` joins them.
"""
