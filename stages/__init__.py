"""One Beam transform a file."""

if __name__ != "groundtrace.stages":  # as where a script has the repository's top on its path
    raise ImportError("import it as groundtrace.stages: under a second name its classes would be other classes")
