"""What a run found as HTML pages that need no other file and no network."""
