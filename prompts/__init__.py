"""Contains the prompts with which stages and rewards call models, as versioned files, and their loader."""

if __name__ != "groundtrace.prompts":  # for example if the repository's top folder is on a script's path
    raise ImportError(
        "import this package as groundtrace.prompts: under another name, Python would load its classes twice"
    )
