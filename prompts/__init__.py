"""The versioned prompt files and their loader."""

if __name__ != "groundtrace.prompts":  # as where a script has the repository's top on its path
    raise ImportError("import it as groundtrace.prompts: under a second name its classes would be other classes")
