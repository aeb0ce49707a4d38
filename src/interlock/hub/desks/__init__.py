"""Who answers which methods of a client: one desk for each kind of thing that is asked for."""
