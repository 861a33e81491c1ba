import pathlib

from deeplab.registry import Logger, Parameter, RunLogger, register


class WandbRun(RunLogger):
    def __init__(self, run, wandb_project):
        import wandb  # pip install wandb; WANDB_MODE=offline needs no network

        identity = pathlib.Path(run.directory, 'wandb_run.txt')  # a training that resumes continues its run
        self._run = wandb.init(
            project=wandb_project,
            dir=run.directory,
            id=identity.read_text() if identity.exists() else None,
            resume='allow',
            config=run.options(),
        )
        identity.write_text(self._run.id)
        self._run.define_metric('*', step_metric='step')  # validations come after the numbers of a later step

    def scalars(self, step, values):
        self._run.log({'step': step, **values})

    validation = scalars

    def end(self, status, reason):
        self._run.summary['status'] = f'{status} {reason}'.strip()
        self._run.finish(exit_code=1 if status == 'failed' else 0)


PROJECT = Parameter('wandb_project', 'deeplab', 'Project of the runs of wandb.')
register(Logger(name='wandb', summary='Weights & Biases.', create=WandbRun, parameters=(PROJECT,)))
