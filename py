#!/bin/sh
PYTHONPATH=/tmp/org/wt/src exec /work/wt/organiser/.venv/bin/python "$@"
