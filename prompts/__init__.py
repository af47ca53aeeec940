"""The versioned prompt files and their loader."""

if __name__ != "groundtrace.prompts":  # for example if the repository's top folder is on a script's path
    raise ImportError("import it as groundtrace.prompts: under a second name its classes would be other classes")
