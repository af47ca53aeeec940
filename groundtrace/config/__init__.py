"""Settings: how a TOML config is read, checked and documented."""
