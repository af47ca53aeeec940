"""Plans a run of a pipeline: finds its recipe, config, input, models, Beam options and run folder, and checks them.

The packages ``execute`` (executes the planned run) and ``account`` (counts records and costs) use this package. This
package uses neither of them.
"""
