"""The gates, one small file each. Later ones join the list in `hub.assembly`; the pipeline does not change."""
