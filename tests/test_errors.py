"""The tree of errors is the one that is drawn, and every leaf can be told apart in a shell."""

import inspect

from suffice import errors


def tree() -> list[type]:
    return [
        c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__
    ]


def test_every_error_is_drawn_and_below_the_root():
    for error in tree():
        assert f"{error.__name__} " in errors.__doc__
        assert issubclass(error, errors.SufficeError)
        assert error.__doc__


def test_branches_have_their_own_exit_code_and_leaves_inherit_it():
    branches = [e for e in tree() if e.__base__ is errors.SufficeError or e is errors.UsageError]
    codes = [branch.exit_code for branch in branches]
    assert len(set(codes)) == len(codes)
    assert 0 not in codes
    for error in tree():
        line = next(x for x in errors.__doc__.splitlines() if f" {error.__name__} " in f" {x} ")
        if "exit" in line:
            assert f"exit {error.exit_code} " in line
            assert str(error.http_status) in line


def test_usage_errors_are_value_errors_so_that_scikit_learn_understands_them():
    assert issubclass(errors.ParameterError, ValueError)
    assert issubclass(errors.TableError, ValueError)


def test_an_estimators_bad_parameter_is_drawn_below_ours_and_is_scikit_learns_too():
    from sklearn.utils._param_validation import InvalidParameterError as TheirError

    from suffice.learner.sklearn_names import InvalidParameterError

    assert issubclass(InvalidParameterError, errors.ParameterError)
    assert issubclass(InvalidParameterError, TheirError)
    assert "InvalidParameterError " in errors.__doc__
    assert InvalidParameterError.__doc__
