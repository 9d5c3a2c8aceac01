r"""The commuting decomposition: one large least-squares problem as a few small independent ones.

Attributes are split into *dense* ones, which groupings or zeros treat label by label, and *symmetric* ones, which every
measured query either slices completely or sums over. For a symmetric attribute with n labels take an orthonormal basis
whose first vector is constant. In that basis a measured query sees the constant part (if it sums) or all parts alike
(if it slices), so the information of every unit is block diagonal: one matrix on the dense cells for each subset T of
the symmetric attributes, where T says which attributes are in a non-constant part,

.. math:: \Lambda_u = \bigoplus_T \Big(\sum_{q:\,T \subseteq S_q} \prod_{i \in S \setminus S_q} n_i\,
    \sigma_{u,q}^{-2} D_q' D_q\Big) \otimes I_{m_T}, \qquad m_T = \prod_{i \in T} (n_i - 1).

Units share the basis, so sums, inverses and products over the tree never mix the subsets. Only subsets of attributes
that one requested query names together are needed; the others are left out without any loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, pairwise, product

import numpy as np

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.errors import UndeterminedError
from tallyveil.nouns.schema import Query, Schema

EXACT = 1e-11  # a variance below this share of that of perfectly correlated cells is that of an exact sum
LARGEST_DENSE = 512  # dense cells; their square is stored for every unit above the leaves


@dataclass(frozen=True, kw_only=True, eq=False)
class Decomposition:
    """Which attributes are dense, which symmetric ones are kept apart rather than summed over, and the subsets T."""

    schema: Schema
    dense: tuple[str, ...]
    kept: tuple[str, ...]
    subsets: tuple[tuple[bool, ...], ...]

    @classmethod
    def of(cls, schema: Schema, *, measured: Sequence[Query], asked: Sequence[Query], zeros: set[str]) -> Decomposition:
        """The decomposition that suits the measured queries; ``zeros`` are attributes with zeros of their own."""
        grouped = {schema.groupings[f].of for query in measured for f in query.factors if f in schema.groupings}
        dense = tuple(name for name in schema.attributes if name in grouped | zeros)
        together = [{attribute_of(schema, factor) for factor in query.factors} for query in asked]
        kept = tuple(
            name
            for name, labels in schema.attributes.items()
            if any(name in named for named in together) and name not in dense and len(labels) > 1
        )
        subsets = tuple(
            subset
            for subset in product((False, True), repeat=len(kept))
            if not any(subset) or any(set(compress(kept, subset)) <= named for named in together)
        )
        cells = math.prod(len(schema.attributes[name]) for name in dense)
        if cells > LARGEST_DENSE:
            raise UndeterminedError(
                f"groupings and zeros tie {' x '.join(dense)} together: {cells:,} cells, and least squares over the "
                f"tree handles {LARGEST_DENSE:,}. Ask for coarser queries."
            )
        return cls(schema=schema, dense=dense, kept=kept, subsets=subsets)

    @cached_property
    def dense_shape(self) -> tuple[int, ...]:
        """The number of labels of each dense attribute."""
        return tuple(len(self.schema.attributes[name]) for name in self.dense)

    @property
    def dense_cells(self) -> int:
        """The number of combinations of labels of the dense attributes."""
        return math.prod(self.dense_shape)

    @cached_property
    def symmetric(self) -> tuple[str, ...]:
        """The attributes that are not dense, in the order of the schema."""
        return tuple(name for name in self.schema.attributes if name not in self.dense)

    @cached_property
    def widths(self) -> list[int]:
        """The number of columns of each subset."""
        sizes = [len(self.schema.attributes[name]) for name in self.kept]
        return [
            math.prod(n - 1 if inside else 1 for n, inside in zip(sizes, subset, strict=True))
            for subset in self.subsets
        ]

    @cached_property
    def columns(self) -> int:
        """The number of coordinates of one dense cell in all subsets."""
        return sum(self.widths)

    @cached_property
    def slices(self) -> list[slice]:
        """The columns of each subset."""
        ends = np.cumsum([0, *self.widths]).tolist()
        return [slice(first, last) for first, last in pairwise(ends)]

    @cached_property
    def order(self) -> Integers:
        """Where each column is among the combinations of coordinates with the last attribute varying fastest."""
        sizes = [len(self.schema.attributes[name]) for name in self.kept]
        number = np.arange(math.prod(sizes)).reshape(sizes)
        parts = []
        for subset in self.subsets:
            cut = tuple(slice(1, None) if inside else slice(0, 1) for inside in subset)
            parts.append(number[cut].reshape(-1))
        return np.concatenate(parts)

    @cached_property
    def dense_cell(self) -> Integers:
        """One cell of the schema for each dense cell, with the first label of every symmetric attribute."""
        axes = [np.arange(n) if name in self.dense else np.zeros(1, np.int64) for name, n in self._axes()]
        grid = np.meshgrid(*axes, indexing="ij") if axes else []
        return (
            np.ravel_multi_index([axis.reshape(-1) for axis in grid], self.schema.shape) if axes else np.zeros(1, int)
        )

    def _axes(self) -> list[tuple[str, int]]:
        return list(zip(self.schema.attributes, self.schema.shape, strict=True))

    def basis(self, name: str) -> Floats:
        """Orthonormal coordinates of a symmetric attribute: all of them if it is kept, else the constant one."""
        size = len(self.schema.attributes[name])
        return helmert(size) if name in self.kept else np.full((size, 1), 1 / math.sqrt(size))

    def inside(self, name: str) -> Bools:
        """Which subsets contain a symmetric attribute."""
        if name not in self.kept:
            return np.zeros(len(self.subsets), np.bool_)
        return np.array([subset[self.kept.index(name)] for subset in self.subsets])

    def marginal(self, query: Query) -> Marginal:
        """A query in these coordinates."""
        shape = [len(labels) for labels in query.row_labels]
        of = {attribute_of(self.schema, factor): (axis, factor) for axis, factor in enumerate(query.factors)}
        weights = {name: self._indicators(name, of) for name in self.schema.attributes}
        first = [of[name][0] for name in self.dense if name in of]
        then = [of[name][0] for name in self.symmetric if name in of]
        rows = np.arange(query.size).reshape(shape).transpose([*first, *then])
        return Marginal(
            decomposition=self,
            query=query,
            dense=_product([weights[name] for name in self.dense]),
            weights={name: weights[name] for name in self.symmetric},
            rows=rows.reshape(math.prod(shape[axis] for axis in first), -1),
        )

    def _indicators(self, name: str, of: Mapping[str, tuple[int, str]]) -> Floats:
        """Which labels of an attribute each label of the query's factor contains; one row if it is summed over."""
        size = len(self.schema.attributes[name])
        if name not in of:
            return np.ones((1, size))
        place = self.schema.positions(of[name][1])
        indicators: Floats = (place == np.arange(place.max() + 1)[:, None]).astype(np.float64)
        return indicators


@dataclass(frozen=True, kw_only=True, eq=False)
class Marginal:
    """A query as a product: an indicator matrix on the dense cells, and one for each symmetric attribute.

    Attributes
    ----------
    dense
        The dense cells of each dense row.
    weights
        For each symmetric attribute, the labels that each of its rows contains.
    rows
        The numbers of the query's rows, dense rows by symmetric rows.
    """

    decomposition: Decomposition
    query: Query
    dense: Floats
    weights: Mapping[str, Floats]
    rows: Integers

    @cached_property
    def factors(self) -> list[Floats]:
        """The rows of each symmetric attribute in its coordinates."""
        products = [weights @ self.decomposition.basis(name) for name, weights in self.weights.items()]
        return [np.where(np.abs(product) < 1e-12, 0.0, product) for product in products]  # a sum has no other part

    @cached_property
    def gram(self) -> Floats:
        """What multiplies the dense information of each subset: the product of n over attributes summed over, or 0.

        Only for measured queries, which slice every symmetric attribute or sum over it.
        """
        out = np.ones(len(self.decomposition.subsets))
        for name, factor in zip(self.weights, self.factors, strict=True):
            lengths = (factor**2).sum(axis=0)  # all equal but the first
            out *= np.where(self.decomposition.inside(name), lengths[-1], lengths[0])
        return out

    @cached_property
    def squares(self) -> Floats:
        """For each subset and symmetric row, the squared length of its weights there."""
        out = np.ones((len(self.decomposition.subsets), 1))
        for name, factor in zip(self.weights, self.factors, strict=True):
            inside = self.decomposition.inside(name)[:, None]
            here = np.where(inside, (factor[:, 1:] ** 2).sum(axis=1), factor[:, 0] ** 2)
            out = (out[:, :, None] * here[:, None, :]).reshape(len(out), -1)
        return out

    def answers(self, x: Floats) -> Floats:
        """The answers from coordinates (units x dense cells x columns): units x rows."""
        return self.answers_of_dense(self.dense @ x)

    def answers_of_dense(self, x: Floats) -> Floats:
        """The answers from coordinates of dense rows (units x dense rows x columns): units x rows."""
        of, units = self.decomposition, len(x)
        natural = np.zeros((units, len(self.dense), math.prod(f.shape[1] for f in self.factors)))
        natural[:, :, of.order] = x
        shaped = natural.reshape(units, len(self.dense), *(f.shape[1] for f in self.factors))
        for axis, factor in enumerate(self.factors):
            shaped = _along(shaped, axis + 2, factor)
        out = np.empty((units, self.query.size))
        out[:, self.rows.reshape(-1)] = shaped.reshape(units, -1)
        return out

    def coordinates(self, answers: Floats, dense_rows: Integers) -> Floats:
        """The transpose of ``answers`` but for the dense part: units x some dense rows x columns."""
        shaped = answers.reshape(len(answers), len(dense_rows), *(len(f) for f in self.factors))
        for axis, factor in enumerate(self.factors):
            shaped = _along(shaped, axis + 2, factor.T)
        columns = math.prod(factor.shape[1] for factor in self.factors)
        return shaped.reshape(len(answers), len(dense_rows), columns)[:, :, self.decomposition.order]

    def variances(self, V: Floats) -> Floats:
        """The variances of the answers from covariances (units x subsets x dense cells x dense cells): units x rows."""
        dense = np.einsum("ntri,ri->ntr", self.dense @ V, self.dense)
        largest = (np.sqrt(np.maximum(np.einsum("ntii->nti", V), 0.0)) @ self.dense.T) ** 2
        dense[dense <= EXACT * largest] = 0.0  # nothing but rounding
        return self.variances_of_dense(dense)

    def variances_of_dense(self, dense: Floats) -> Floats:
        """The variances of the answers from those of dense rows (units x subsets x dense rows): units x rows."""
        out = np.empty((len(dense), self.query.size))
        out[:, self.rows.reshape(-1)] = np.einsum("ntr,ts->nrs", dense, self.squares).reshape(len(dense), -1)
        return out


def attribute_of(schema: Schema, factor: str) -> str:
    """The attribute of a factor: itself, or the one that it groups."""
    return schema.groupings[factor].of if factor in schema.groupings else factor


def helmert(size: int) -> Floats:
    """An orthonormal basis, in columns, whose first vector is constant.

    >>> import numpy as np
    >>> np.allclose(helmert(5).T @ helmert(5), np.eye(5)), np.ptp(helmert(5)[:, 0])
    (True, np.float64(0.0))
    """
    basis = np.zeros((size, size))
    basis[:, 0] = 1 / math.sqrt(size)
    for column in range(1, size):
        basis[:column, column] = 1.0
        basis[column, column] = -column
        basis[:, column] /= math.sqrt(column * (column + 1))
    return basis


def _along(values: Floats, axis: int, matrix: Floats) -> Floats:
    """Multiply one axis of an array by a matrix."""
    if matrix.shape == (1, 1):
        return values * float(matrix[0, 0])
    out: Floats = np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)
    return out


def _product(matrices: Sequence[Floats]) -> Floats:
    """The Kronecker product of matrices."""
    out: Floats = np.ones((1, 1))
    for matrix in matrices:
        out = np.kron(out, matrix).astype(np.float64, copy=False)
    return out
