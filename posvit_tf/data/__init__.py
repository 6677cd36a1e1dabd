"""Where images come from, how they are drawn and how they are varied."""
