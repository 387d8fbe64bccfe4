"""What kind of problem it is: ``Binary``, ``Multiclass`` or ``Multilabel``.

Whatever depends on the kind is a method of the task, so that nobody else compares names. A user's
string becomes a task by ``get_task``."""

from softset.tasks.base import Task
from softset.tasks.kinds import BINARY, MULTICLASS, MULTILABEL, TASKS, get_task, task_of

__all__ = ["BINARY", "MULTICLASS", "MULTILABEL", "TASKS", "Task", "get_task", "task_of"]
