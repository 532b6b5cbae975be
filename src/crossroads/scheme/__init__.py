"""Publish/subscribe systems of the documents: mapping × overlay × matching. No IO."""
