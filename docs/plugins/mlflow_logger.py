import pathlib

from deeplab.registry import Logger, Parameter, RunLogger, register


class MlflowRun(RunLogger):
    def __init__(self, run, mlflow_experiment):
        import mlflow  # pip install mlflow; MLFLOW_TRACKING_URI says where the runs are kept

        self._mlflow = mlflow
        mlflow.set_experiment(mlflow_experiment)
        identity = pathlib.Path(run.directory, 'mlflow_run.txt')  # a training that resumes continues its run
        self._id = mlflow.start_run(run_id=identity.read_text() if identity.exists() else None).info.run_id
        identity.write_text(self._id)
        if not run.step:
            mlflow.log_params({name: str(value)[:500] for name, value in run.options().items()})
        mlflow.log_dict(run.manifest, f'run-{run.step}.json')

    def scalars(self, step, values):
        self._mlflow.log_metrics({name: value for name, value in values.items() if value is not None}, step)

    validation = scalars

    def end(self, status, reason):
        self._mlflow.end_run({'finished': 'FINISHED', 'stopped': 'KILLED'}.get(status, 'FAILED'))


EXPERIMENT = Parameter('mlflow_experiment', 'deeplab', 'Experiment of the runs of mlflow.')
register(Logger(name='mlflow', summary='MLflow.', create=MlflowRun, parameters=(EXPERIMENT,)))
