"""Models as other programs run them: a scikit-learn pipeline, or an ONNX graph.

What a model computes of a row is

    e = numbers with missing ones filled, indicators of categories and of missing ones
    z = A e + b,   z min(1, bound / |z|),   scores = W z + w, or trees of z

Another program gets the same numbers, in the same order, as parts that it has of its own. Nothing
of suffice is needed to run them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from suffice.errors import ParameterError, missing_packages
from suffice.models.trees import BoostedTrees
from suffice.plain_text import name
from suffice.tables.pipeline import Column, Pipeline


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """Computes what a fitted model does, as numbers that any program can use.

    Parameters
    ----------
    units : FeatureUnits
        How columns become coordinates.
    scores : ndarray or BoostedTrees
        Weights (d + 1, K) of the coordinates and a constant, or trees of them. Of two classes, and
        of a number, K = 1.
    classes : ndarray or None
        The classes, None of a model that predicts a number.
    limits : tuple of float, optional
        The range that a predicted number is held to.
    has_link : bool
        Whether probabilities are the softmax of scores, of two classes the logistic function.
    fitted : tuple, optional
        Trees as scikit-learn fitted them, and slope and shift of the link behind them.
    """

    units: Any
    scores: np.ndarray | BoostedTrees
    classes: np.ndarray | None
    limits: tuple[float, float] | None = None
    has_link: bool = False
    fitted: tuple[Any, float, np.ndarray] | None = None

    def __post_init__(self) -> None:
        dated = [column.name for column in self.pipeline.columns if column.unit]
        if dated:
            raise ParameterError(
                f"Column {name(dated[0])} holds dates, which suffice alone counts as this model"
                " does. Use the model with suffice, or release without this column."
            )
        if not self.units.is_affine:
            assert self.pipeline.map is not None  # noqa: S101  # for the type checker
            raise ParameterError(
                f"This model reads columns through the feature map {self.pipeline.map.kind}, which"
                " other programs do not have. Use it with suffice, or learn from a release without"
                " a map (map=None, --map none)."
            )

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline of the model."""
        found: Pipeline = self.units.pipeline
        return found

    @property
    def clips(self) -> bool:
        """Whether long rows are shortened."""
        return self.pipeline.bound < 1e30  # no row of numbers is longer

    @cached_property
    def affine(self) -> tuple[np.ndarray, np.ndarray]:
        """The matrix A (d, cells) and the offset b, of numbers and indicators."""
        units, fill = self.units, self.pipeline.fill
        blocks, constants, first = [], [], 0
        for column in self.pipeline.columns:
            width = len(column.outputs)
            filled = np.zeros(width) if fill is None else fill[first : first + width]
            blocks.append(indicators(column, filled))
            constants.append(np.append(np.zeros(width - 1), float(column.other)))
            first += width
        cells = np.zeros((first, sum(block.shape[1] for block in blocks)))
        row = place = 0
        for block in blocks:
            height, width = block.shape
            cells[row : row + height, place : place + width] = block
            row, place = row + height, place + width
        return units.matrix @ cells, units.matrix @ np.concatenate(constants) + units.offset


def indicators(column: Column, fill: np.ndarray) -> np.ndarray:
    """Return how a column's numbers follow from its cell: itself, or from indicators.

    They are one for each category and one for a missing cell; another category has none of them.
    """
    if column.categories is None:
        return np.ones((1, 1))
    known = len(column.categories)
    block = np.zeros((len(column.outputs), known + 1))
    block[:known, :known] = np.eye(known)
    if column.other:  # one minus all indicators: what no indicator tells
        block[known] = -1.0
    block[:, known] += fill
    return block


def arithmetic_of(
    model: Any, units: Any, scores: np.ndarray | BoostedTrees, fitted: Any = None
) -> Arithmetic:
    """Return what a fitted learner computes; raise where other programs cannot."""
    if getattr(model, "class_weight", None) is not None:
        raise ParameterError(
            "Other programs do not know class_weight. Call set_params(class_weight=None) first."
        )
    classes, limits = getattr(model, "classes_", None), getattr(model, "target_", None)
    has_link = False
    if classes is not None and model.gives_probabilities:
        some = np.linspace(-3.0, 3.0, 4 * len(classes)).reshape(4, -1)
        plain = np.exp(some) / np.exp(some).sum(axis=1, keepdims=True)
        stated = model._probabilities(some[:, 1] - some[:, 0] if len(classes) == 2 else some)  # noqa: SLF001
        has_link = np.allclose(stated, plain, rtol=1e-12, atol=0)
    held = None if limits is None else limits[1:]
    return Arithmetic(units, scores, classes, held, has_link, fitted)


def weights_of(theta: np.ndarray, constant: float) -> np.ndarray:
    """Return theta (d,) or (d, K) as (d + 1, K); its last is of a coordinate that is constant."""
    theta = theta.reshape(len(theta), -1)
    if constant:
        return np.vstack([theta[:-1], constant * theta[-1:]])
    return np.vstack([theta, np.zeros((1, theta.shape[1]))])


def as_pipeline(model: Arithmetic) -> Any:
    """Return a scikit-learn pipeline of its own parts alone, with the same predictions."""
    from sklearn.pipeline import Pipeline as Steps

    steps = [*cell_steps(model), *clip_steps(model)]
    if isinstance(model.scores, BoostedTrees):
        if model.fitted is None:
            raise ParameterError(
                "A model file holds trees as plain numbers, which scikit-learn cannot take back."
                " Call to_sklearn() where the model was fitted, or to_onnx() of this one."
            )
        return Steps([*steps, ("trees", linked_trees(model, *model.fitted))])
    weights = model.scores[:-1].T
    if model.clips:  # rows come as z / |z|, and a one
        weights = np.hstack([model.pipeline.bound * weights, np.zeros((len(weights), 1))])
    return Steps([*steps, ("scores", linear_estimator(model, weights, model.scores[-1]))])


def cell_steps(model: Arithmetic) -> list[tuple[str, Any]]:
    """Return steps from cells to standardised coordinates."""
    from sklearn.compose import ColumnTransformer
    from sklearn.decomposition import TruncatedSVD
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    pipeline, (matrix, offset) = model.pipeline, model.affine
    names = [column.name for column in pipeline.columns]
    steps: list[tuple[str, Any]] = []
    if any(column.categories is not None for column in pipeline.columns):
        cells, place, parts = [], 0, []
        for j, column in enumerate(pipeline.columns):
            step: Any = "passthrough"
            if column.categories is not None:
                stated = np.empty(len(column.categories) + 2, dtype=object)
                stated[:] = [*column.categories, None, np.nan]
                step = OneHotEncoder(
                    categories=[stated], handle_unknown="ignore", sparse_output=False
                )
            elif pipeline.fill is not None:
                step = SimpleImputer(strategy="constant", fill_value=float(pipeline.fill[place]))
            cells.append(0.0 if column.categories is None else column.categories[0])
            parts.append((f"column{j}", step, [j]))
            place += len(column.outputs)
        first = np.empty((1, len(cells)), dtype=object)
        first[0] = cells
        columns = ColumnTransformer(parts).fit(first)
        steps.append(("columns", columns))
        twice, place = [], 0  # a missing text is None or NaN, and has an indicator for either
        for column in pipeline.columns:
            known = 0 if column.categories is None else len(column.categories)
            twice += [*range(place, place + known + 1), *([place + known] if known else [])]
            place += known + 1
        linear = TruncatedSVD(n_components=len(matrix))
        linear.components_, linear.n_features_in_ = matrix[:, twice], len(twice)
        steps.append(("coordinates", linear))
        scaler = StandardScaler(with_std=False)
        scaler.mean_, scaler.scale_, scaler.var_ = -offset, None, None
    else:
        if pipeline.fill is not None:  # the mean of one row is that row
            steps.append(("fill", SimpleImputer(strategy="mean").fit(pipeline.fill[None])))
        if pipeline.map is not None:
            linear = TruncatedSVD(n_components=len(matrix))
            linear.components_, linear.n_features_in_ = matrix, len(names)
            steps.append(("coordinates", linear))
        scaler = StandardScaler(with_std=pipeline.map is None)
        scaler.mean_, scaler.scale_ = -offset, None
        if pipeline.map is None:
            scaler.mean_, scaler.scale_ = pipeline.mean, pipeline.scale
    scaler.n_features_in_ = len(matrix)
    steps.append(("standardise", scaler))
    if names != [f"x{j}" for j in range(len(names))]:
        named = np.array(names, dtype=object)
        steps[0][1].feature_names_in_ = named
        for _, step, at in getattr(steps[0][1], "transformers_", ()):  # each is given its column
            step.feature_names_in_ = named[at]
    return steps


def clip_steps(model: Arithmetic) -> list[tuple[str, Any]]:
    """Return steps from z to (z / L, 1), L = max(|z|, bound), by parts that scikit-learn has.

    L is put beside z. No number of a row is larger than its length, so the norm "max" is L.
    """
    from sklearn.pipeline import FeatureUnion, make_pipeline
    from sklearn.preprocessing import FunctionTransformer, Normalizer

    if not model.clips:
        return []
    length = FunctionTransformer(np.linalg.norm, kw_args={"axis": 1, "keepdims": True})
    most = FunctionTransformer(np.clip, kw_args={"a_min": model.pipeline.bound, "a_max": None})
    both = FeatureUnion([("row", "passthrough"), ("length", make_pipeline(length, most))])
    both.fit(np.zeros((1, len(model.affine[1]))))
    return [("length", both), ("clip", Normalizer(norm="max"))]


def linear_estimator(model: Arithmetic, weights: np.ndarray, constant: np.ndarray) -> Any:
    """Return the last step: linear scores, and what they mean."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.svm import LinearSVC

    if model.classes is not None:
        estimator = LogisticRegression() if model.has_link else LinearSVC()
        estimator.classes_ = model.classes
        estimator.coef_, estimator.intercept_ = weights, constant
        estimator.n_features_in_ = weights.shape[1]
        return estimator
    low, high = model.limits or (-np.inf, np.inf)
    held = TransformedTargetRegressor(
        LinearRegression(),
        func=np.positive,
        inverse_func=partial(np.clip, a_min=low, a_max=high),
        check_inverse=False,
    ).fit(np.zeros((2, weights.shape[1])), np.zeros(2))
    held.regressor_.coef_, held.regressor_.intercept_ = weights[0], constant[0]
    return held


def linked_trees(model: Arithmetic, trees: Any, slope: float, shift: np.ndarray) -> Any:
    """Return fitted trees, and behind their scores s the link softmax(slope s + shift)."""
    from sklearn.ensemble import StackingClassifier
    from sklearn.linear_model import LogisticRegression

    assert model.classes is not None  # noqa: S101  # for the type checker: trees have classes
    count = len(model.classes)
    stack = StackingClassifier(
        [("trees", trees)], LogisticRegression(), cv="prefit", stack_method="decision_function"
    )  # fitted to rows of zeros: its weights are then put in place
    stack.fit(np.zeros((2 * count, trees.n_features_in_)), np.repeat(model.classes, 2))
    last = stack.final_estimator_
    if count == 2:
        last.coef_, last.intercept_ = np.array([[slope]]), np.array([shift[1] - shift[0]])
    else:
        last.coef_, last.intercept_ = slope * np.eye(count), np.asarray(shift, dtype=float)
    return stack


def as_onnx(model: Arithmetic, description: str) -> bytes:
    """Return a model in the Open Neural Network Exchange format, in double precision.

    A model of numbers alone has one input ``X``; with categories there is one input for each
    column. Outputs are ``label`` and ``scores``, or ``number``.
    """
    with missing_packages():
        from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(values: Any) -> str:
        array = np.asarray(values)
        array = array.astype(object) if array.dtype.kind == "U" else array
        constants.append(numpy_helper.from_array(array, f"c{len(constants)}"))
        return str(constants[-1].name)

    def add(kind: str, *inputs: str, name: str = "", **options: Any) -> str:
        output = name or f"v{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [output], **options))
        return output

    inputs, cells = onnx_cells(model.pipeline, add, constant)
    pipeline, (matrix, offset) = model.pipeline, model.affine
    if pipeline.map is None and inputs[0].name == "X":  # as it is standardised everywhere
        z = add("Div", add("Sub", cells, constant(pipeline.mean)), constant(pipeline.scale))
    else:
        z = add("Add", add("MatMul", cells, constant(matrix.T)), constant(offset))
    if model.clips:
        bound = constant([[pipeline.bound]])
        length = add("Sqrt", add("ReduceSumSquare", z, constant([1]), keepdims=1))
        z = add("Mul", add("Div", z, add("Max", length, bound)), bound)
    if isinstance(model.scores, BoostedTrees):
        two = len(model.scores.baseline) == 2
        sums = add("TreeEnsemble", z, **onnx_trees(model.scores))
        base = model.scores.baseline
        scores = add("Add", sums, constant([base[1] - base[0]] if two else base))
    else:
        weighted = add("MatMul", z, constant(model.scores[:-1]))
        scores = add("Add", weighted, constant(model.scores[-1]))
    double = TensorProto.DOUBLE
    if model.classes is None:
        if model.limits is not None:
            low, high = (constant(np.float64(end)) for end in model.limits)
            scores = add("Clip", scores, low, high)
        add("Reshape", scores, constant([-1]), name="number")
        outputs = [helper.make_tensor_value_info("number", double, [None])]
    else:
        if len(model.classes) == 2:
            above = add("Greater", scores, constant(np.float64(0)))
            best = add("Reshape", add("Cast", above, to=TensorProto.INT64), constant([-1]))
        else:
            best = add("ArgMax", scores, axis=1, keepdims=0)
        texts = model.classes.dtype.kind in "UO"
        add("Gather", constant(model.classes), best, name="label")
        add("Identity", scores, name="scores")
        kind = TensorProto.STRING if texts else helper.np_dtype_to_tensor_dtype(model.classes.dtype)
        outputs = [
            helper.make_tensor_value_info("label", kind, [None]),
            helper.make_tensor_value_info("scores", double, [None, None]),
        ]
    graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 5)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9, doc_string=description)
    return bytes(made.SerializeToString())


def onnx_cells(
    pipeline: Pipeline, add: Callable[..., str], constant: Callable[[Any], str]
) -> tuple[list[Any], str]:
    """Return the inputs of a graph, and the name of its numbers and indicators side by side."""
    from onnx import TensorProto, helper

    double, fill = TensorProto.DOUBLE, pipeline.fill
    columns = pipeline.columns
    if all(column.categories is None for column in columns):
        inputs, cells = [helper.make_tensor_value_info("X", double, [None, len(columns)])], "X"
        if fill is not None:
            cells = add("Where", add("IsNaN", "X"), constant(fill[None]), "X")
        return inputs, cells
    inputs, parts, place = [], [], 0
    for column in columns:
        cell, kind = column.name, double
        if column.categories is None:
            if fill is not None:
                cell = add("Where", add("IsNaN", cell), constant([[fill[place]]]), cell)
        else:
            texts = isinstance(column.categories[0], str)
            kind = TensorProto.STRING if texts else TensorProto.INT64
            missing: Any = np.iinfo(np.int64).min
            if texts:  # a missing text is the empty one
                missing = "" if "" not in column.categories else "\0"
            equal = add("Equal", cell, constant([[*column.categories, missing]]))
            cell = add("Cast", equal, to=double)
        parts.append(cell)
        inputs.append(helper.make_tensor_value_info(column.name, kind, [None, 1]))
        place += len(column.outputs)
    return inputs, add("Concat", *parts, axis=1)


def onnx_trees(trees: BoostedTrees) -> dict[str, Any]:
    """Return the attributes of a node that sums trees: inner nodes and leaves, each in order.

    A tree that is one leaf becomes a node with that leaf on either side.
    """
    from onnx import numpy_helper

    right, roots = trees.layout
    inner, leaves = trees.features >= 0, trees.features < 0
    lone = roots[leaves[roots]]
    is_node = inner.copy()
    is_node[lone] = True
    node_of, leaf_of = np.cumsum(is_node) - 1, np.cumsum(leaves) - 1
    at = np.flatnonzero(is_node)
    left_child = np.where(inner[at], at + 1, at)
    right_child = np.where(inner[at], right[at], at)

    def side(children: np.ndarray) -> tuple[list[int], list[int]]:
        is_leaf = leaves[children]
        places = np.where(is_leaf, leaf_of[children], node_of[children])
        return places.tolist(), is_leaf.astype(int).tolist()

    (true, true_leaf), (false, false_leaf) = side(left_child), side(right_child)
    count = len(trees.baseline)
    targets = np.zeros(len(leaves), dtype=int)
    if count > 2:  # trees belong to the classes in turn
        targets = (np.searchsorted(roots, np.arange(len(leaves)), side="right") - 1) % count
    return {
        "domain": "ai.onnx.ml",
        "n_targets": 1 if count == 2 else count,
        "aggregate_function": 1,  # a sum
        "tree_roots": node_of[roots].tolist(),
        "nodes_featureids": np.maximum(trees.features[at], 0).tolist(),
        "nodes_splits": numpy_helper.from_array(np.where(inner[at], trees.numbers[at], 0.0)),
        "nodes_modes": numpy_helper.from_array(np.zeros(len(at), dtype=np.uint8)),  # <=
        "nodes_truenodeids": true,
        "nodes_trueleafs": true_leaf,
        "nodes_falsenodeids": false,
        "nodes_falseleafs": false_leaf,
        "leaf_targetids": targets[leaves].tolist(),
        "leaf_weights": numpy_helper.from_array(trees.numbers[leaves]),
    }
