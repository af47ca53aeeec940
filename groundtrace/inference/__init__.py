"""One interface to every model, with the reply cache, retries and accounting behind it."""
