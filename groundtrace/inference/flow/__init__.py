"""When requests are sent, and sent again."""
