r"""Covariances of all estimates of a tree as a function of the precisions of its noise, and the gradient of it.

Forward, the passes up and down of ``blue`` on a tree in which alike units are listed once:

.. math:: V^-_u = (\Lambda_u + S_u^{-1})^{-1}, \quad S_u = \sum_c V^-_c, \quad
    \tilde V_c = V^-_c + V^-_c G_p V^-_c, \quad G_p = S_p^+ \tilde V_p S_p^+ - S_p^+.

Backward, the same steps in reverse. If :math:`\bar X` is the gradient of a figure with respect to a symmetric matrix X,

.. math:: \bar V^-_c \mathrel{+}= Q + Q V^-_c G_p + G_p V^-_c Q, \quad \bar G_p \mathrel{+}= V^-_c Q V^-_c,
    \quad Q = \bar{\tilde V}_c

.. math:: \bar{\tilde V}_p \mathrel{+}= P \bar G P, \quad
    \bar S = -P (\bar G P \tilde V_p + \tilde V_p P \bar G - \bar G) P, \quad P = S^+

.. math:: \bar S \mathrel{+}= K' \bar V^- K, \quad \bar\Lambda = -V^- \bar V^- V^-, \quad K = (I + S \Lambda)^{-1}.

Conditioning on exact answers maps V to M V M', so its gradient is M' \bar V M. With ``own``, a unit is estimated from
its own measurements and its parent alone, as TopDown does: :math:`V^-_u = \Lambda_u^{-1}` above the leaves too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tallyveil._arrays import Bools, Floats
from tallyveil.allocation.alike import AlikeStage, alike_tree
from tallyveil.blue.decomposition import Marginal
from tallyveil.blue.linear import conditioned, inverse_on, pseudo_inverse
from tallyveil.blue.problem import SINGULAR, Problem

Precisions = Mapping[str, Mapping[str, Floats]]  # by level and query: of each span


@dataclass(frozen=True, kw_only=True, eq=False)
class Forward:
    """What the passes leave for the gradient, stage by stage; ``V`` are the covariances given everything."""

    up: Sequence[Floats]
    free: Sequence[Floats]  # covariances before exact answers are conditioned on
    S: Sequence[Floats]
    P: Sequence[Floats]
    G: Sequence[Floats]
    V: Sequence[Floats]
    information: Sequence[Floats]
    moved: Sequence[Floats | None]  # M of each stage's exact answers, for every node


@dataclass(frozen=True, kw_only=True, eq=False)
class AlikeTree:
    """A problem, its compressed tree, and whether units are estimated from their ``own`` measurements."""

    problem: Problem
    own: bool = False
    most: int | None = None

    @cached_property
    def stages(self) -> tuple[AlikeStage, ...]:
        """The compressed tree."""
        return alike_tree(self.problem) if self.most is None else alike_tree(self.problem, most=self.most)

    @cached_property
    def forms(self) -> list[dict[str, Floats]]:
        """For each stage and measured query, its information at a precision of one: subsets x cells x cells."""
        return [
            {
                name: query.marginal.gram[:, None, None] * query.dense_information
                for name, query in information.measured.items()
            }
            for information in self.problem.stages
        ]

    @cached_property
    def starts(self) -> list[Bools]:
        """Which nodes start from their own measurements."""
        measured = [bool(information.measured) for information in self.problem.stages]
        return [
            here.base | (~here.bare if self.own and some else False)
            for here, some in zip(self.stages, measured, strict=True)
        ]

    def determined(self, precisions: Precisions) -> bool:
        """Whether the measurements of every node that starts from them determine its cells."""
        for number, here in enumerate(self.stages):
            Lambda, opened = self._information(number, precisions), self.problem.stages[number].opened
            for kind in np.unique(here.kind[self.starts[number]]):
                values = np.linalg.eigvalsh(Lambda[kind][:, opened[kind]][:, :, opened[kind]])
                if values.size and (values[:, 0] <= SINGULAR * values[:, -1]).any():
                    return False
        return True

    def forward(self, precisions: Precisions) -> Forward:
        """The covariances of all nodes, given everything, from the precisions of the noise."""
        last = self.problem.last
        blank: list[Floats] = [np.zeros(0)] * (last + 1)
        up, free, S, P, G, V = ([*blank] for _ in range(6))
        information = [*blank]
        moved: list[Floats | None] = [None] * (last + 1)
        for number in range(last, -1, -1):
            here, stage = self.stages[number], self.problem.stages[number]
            information[number] = self._information(number, precisions)
            Lambda = information[number][here.kind]
            S[number] = self._sums(number, up[number + 1]) if number < last else np.zeros_like(Lambda)
            identity = np.eye(Lambda.shape[-1])
            free[number] = np.asarray(np.linalg.solve(identity + S[number] @ Lambda, S[number]), np.float64)
            starts = self.starts[number]
            free[number][starts] = inverse_on(stage.opened[here.kind[starts]], Lambda[starts])
            up[number], moved[number] = self._condition(number, free[number])
        V[0] = up[0]
        for number in range(last):
            below = self.stages[number + 1]
            P[number] = self._inverse_of_sums(number, S[number])
            G[number] = P[number] @ V[number] @ P[number] - P[number]
            G_parent = G[number][below.parent]
            V[number + 1] = up[number + 1] + up[number + 1] @ G_parent @ up[number + 1]
            V[number + 1][below.bare] = V[number][below.parent[below.bare]]
        return Forward(up=up, free=free, S=S, P=P, G=G, V=V, information=information, moved=moved)

    def backward(self, found: Forward, of_V: Sequence[Floats]) -> dict[str, dict[str, Floats]]:
        """The gradient by level, query and span, from that with respect to the covariances of each stage."""
        last = self.problem.last
        V_bar = [one.copy() for one in of_V]
        up_bar = [np.zeros_like(one) for one in of_V]
        S_bar = [np.zeros_like(one) for one in of_V]
        for number in range(last, 0, -1):
            here, parent = self.stages[number], self.stages[number].parent
            up, G = found.up[number], found.G[number - 1][parent]
            Q = np.where(here.bare[:, None, None, None], 0.0, V_bar[number])
            QVG = Q @ up @ G
            up_bar[number] += Q + QVG + np.swapaxes(QVG, -1, -2)
            G_bar = self._over_children(number - 1, up @ Q @ up)
            np.add.at(V_bar[number - 1], parent[here.bare], V_bar[number][here.bare])
            P, V = found.P[number - 1], found.V[number - 1]
            GPV = G_bar @ P @ V
            V_bar[number - 1] += P @ G_bar @ P
            S_bar[number - 1] -= P @ (GPV + np.swapaxes(GPV, -1, -2) - G_bar) @ P
        up_bar[0] += V_bar[0]
        gradient: dict[str, dict[str, Floats]] = {}
        for number, here in enumerate(self.stages):
            M = found.moved[number]
            bar = up_bar[number] if M is None else np.swapaxes(M, -1, -2) @ up_bar[number] @ M
            V, starts = found.free[number], self.starts[number]
            gradient |= self._of_precisions(number, -V @ bar @ V)
            if number < last:
                Lambda = found.information[number][here.kind]
                K = np.linalg.inv(np.eye(Lambda.shape[-1]) + found.S[number] @ Lambda)
                K[starts] = 0.0
                S_bar[number] += np.swapaxes(K, -1, -2) @ bar @ K
                below = self.stages[number + 1]
                up_bar[number + 1] += below.times[:, None, None, None] * S_bar[number][below.parent]
        return gradient

    def _information(self, number: int, precisions: Precisions) -> Floats:
        """The information of each kind of a stage: kinds x subsets x cells x cells."""
        stage, decomposition = self.problem.stages[number], self.problem.decomposition
        cells = decomposition.dense_cells
        out = np.zeros((len(stage.span), len(decomposition.subsets), cells, cells))
        for name, form in self.forms[number].items():
            assert stage.stage.level is not None
            out += precisions[stage.stage.level][name][stage.span][:, None, None, None] * form
        return out

    def _of_precisions(self, number: int, Lambda_bar: Floats) -> dict[str, dict[str, Floats]]:
        """The gradient with respect to each query's precision by span, from that of the nodes' information."""
        stage, here = self.problem.stages[number], self.stages[number]
        if stage.stage.level is None:
            return {}
        spans = stage.span[here.kind]
        out: dict[str, Floats] = {}
        for name, form in self.forms[number].items():
            each = np.einsum("ntij,tij->n", Lambda_bar, form)
            many = int(stage.spans.max(initial=0)) + 1
            out[name] = np.bincount(spans, weights=each, minlength=many).astype(np.float64)
        return {stage.stage.level: out}

    def _sums(self, number: int, below: Floats) -> Floats:
        """The sums of the children's covariances."""
        return self._over_children(number, below * self.stages[number + 1].times[:, None, None, None])

    def _over_children(self, number: int, below: Floats) -> Floats:
        """The sums over the nodes below each node, which stand one after another."""
        parents = np.arange(len(self.stages[number].kind))
        out: Floats = np.add.reduceat(below, np.searchsorted(self.stages[number + 1].parent, parents), axis=0)
        return out

    def _condition(self, number: int, V: Floats) -> tuple[Floats, Floats | None]:
        """Covariances given exact answers, and the M with which M V M' they are; base units have those below too."""
        here, stages = self.stages[number], self.problem.stages
        total: Floats | None = None
        for below in range(number, len(stages)):
            for known in stages[below].known:
                used = known.marginal.dense
                conditioned_V, gain = conditioned(V, used, known.marginal.gram > 0)
                M = np.eye(V.shape[-1]) - gain @ used
                if below > number:  # a bare only child is the same people
                    M[~here.base] = np.eye(V.shape[-1])
                    conditioned_V = np.where(here.base[:, None, None, None], conditioned_V, V)
                V, total = conditioned_V, M if total is None else M @ total
        return V, total

    def _inverse_of_sums(self, number: int, S: Floats) -> Floats:
        """Pseudo-inverses of the sums of the children's covariances; zero where the children say nothing."""
        stage, here = self.problem.stages[number], self.stages[number]
        alone = here.base | here.bare
        opened = stage.opened[here.kind] & ~alone[:, None]
        exactly = self.problem.exactly(number + 1)
        P = np.zeros_like(S)
        P[:, ~exactly] = inverse_on(opened, S[:, ~exactly])
        P[:, exactly] = pseudo_inverse(S[:, exactly], np.einsum("ntii->nt", S[:, exactly]))
        P[alone] = 0.0
        return P


def of_rows(marginal: Marginal, rows: Floats) -> Floats:
    """The gradient with respect to covariances from that with respect to the variances of a query's rows."""
    shaped = rows[:, marginal.rows.reshape(-1)].reshape(len(rows), *marginal.rows.shape)
    each = np.einsum("nrs,ts->ntr", shaped, marginal.squares)
    out: Floats = marginal.dense.T @ (each[..., None] * marginal.dense)
    return out
