"""WHICH node owns a key: overlays that find each other, mend themselves and route opaque keys."""
