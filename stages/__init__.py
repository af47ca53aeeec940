"""The stages: one Beam transform in each file."""

if __name__ != "groundtrace.stages":  # such as by a script with the repository's top on its path
    raise ImportError("import it as groundtrace.stages: under a second name its classes would be other classes")
