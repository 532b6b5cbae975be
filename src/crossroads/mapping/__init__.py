"""WHERE it meets: keys that an event and a subscription compute without knowing each other."""
