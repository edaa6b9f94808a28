"""The table of call patterns: expressions of x, y and others, with the inputs' shapes (inputs.made)."""

from lockstep.rules.inputs import Call

SHAPES = ("4x6", "5x3", "3x2")  # even on two and four ranks, uneven, and with empty shards

ONE = """-x; x.abs(); x.exp(); x.relu(); x.sum(); x.sum(0); x.sum(1); x.sum(-1, keepdim=True); x.mean(); x.mean(0); x.mean(1);
x.amax(0); x.amin(1); x.amax(); x.amin(); x.max(); x.min(); x.max(0); x.max(1); x.min(1); x.argmax(0); x.argmax(1); x.argmin(); x.argmax();
x.prod(0); x.prod(); x.cumsum(0); x.cumsum(1); x.cumprod(0); x.cummax(0); x.cummin(1); x.logcumsumexp(0); x.sort(0); x.sort(1);
x.argsort(0); x.msort(); x.softmax(0); x.softmax(1); x.log_softmax(0); x.log_softmax(1); F.softmin(x, 1); x.norm(); x.norm(1); x.norm(float('inf'));
x.norm(float('-inf')); x.norm(3); x.norm(0); x.norm(dim=0); x.norm(dim=1); x.norm(float('inf'), 0); x.norm(dim=0).sum(); x.norm(1, 0).sum();
x.norm(dim=1).sum(); x.norm(3, 0).mean(); torch.linalg.vector_norm(x); torch.linalg.vector_norm(x, 1); torch.linalg.vector_norm(x, dim=0);
torch.linalg.vector_norm(x, float('inf'), dim=1); torch.linalg.matrix_norm(x); x.var(0); x.var(1); x.var(); x.std(0); x.std(1); x.std();
x.var(0, correction=0); x.std(0).sum(); torch.var_mean(x, 0); x.t(); x.T; x.view(-1); x.view(-1, 3); x.view(-1, 2); x.view(x.shape); x.view(x.shape[0], 1, -1);
x.view(1, -1); x.view(x.shape[0], -1, 1); x.reshape(-1); x.reshape(-1, 6); x.reshape(-1, x.shape[0]); x.flatten(); x.unsqueeze(0); x.unsqueeze(1);
x.unsqueeze(-1); x.squeeze(0); x.squeeze(); x.permute(1, 0); x.transpose(0, 1); x.swapaxes(0, 1); x.movedim(0, 1); x.expand(2, *x.shape); x.expand(x.shape);
x.unsqueeze(0).expand(3, -1, -1).sum(0); x.flip(0); x.flip(1); x.flip(0, 1); x.roll(1, 0); x.roll(-1, 1); x.roll(2); x.rot90(); x.tril(); x.triu(1);
torch.cat([x, x]); torch.cat([x, x], 1); torch.stack([x, x]); torch.stack([x, x], 1); torch.stack([x, x], -1); x.chunk(2); x.chunk(2, 1);
x.split(2); x.split(1, 1); x.split([1, x.shape[0] - 1]); x.tensor_split(3); x.unbind(0); x.unbind(1); x[1:3]; x[:, 1:]; x[0]; x[-1]; x[:, 1]; x[::2];
x[:, ::2]; x[None]; x[..., 0]; x.select(0, 1); x.select(1, 0); x.narrow(0, 1, 2); x.narrow(1, 0, 1); x.diagonal(); x.trace(); x.diag(); x.repeat(2, 1);
x.repeat(1, 2); x.repeat(2, 1, 1); x.tile(2, 2); x.repeat_interleave(2, 0); x.repeat_interleave(2, 1); x.unfold(0, 2, 1); x.unflatten(1, (1, -1));
x.unflatten(0, (-1, 1)); x.view(2, -1, x.shape[1]).sum(0); x.view(2, -1, x.shape[1]).mean(1); x.clamp(min=0); x.clamp(-3, 3); x.clamp(max=1); x * 2; 2 - x;
x + 1; x - 1; 1 + x; x / 2; x // 2; 3 / (x + 100); x ** 2; x ** 3; x ** 0; x.square(); (x + 100).sqrt(); x.sign(); x.sgn(); x.floor(); (x / 4).round(); (x / 4).trunc();
(x / 4).frac(); (x / 4).ceil(); x.logsumexp(0); x.logsumexp(1); x.topk(2, 0); x.topk(2, 1); x.kthvalue(2, 0); x.median(0); x.median(); x.nanmedian(1); x.mode(0);
x.quantile(0.5, 0); F.layer_norm(x, x.shape[-1:]); F.layer_norm(x, x.shape); F.rms_norm(x, x.shape[-1:]); F.normalize(x); F.normalize(x, dim=0); F.gelu(x);
F.silu(x); F.softplus(x); F.elu(x); F.leaky_relu(x); F.hardtanh(x); F.relu6(x); F.mish(x); F.glu(x.repeat(1, 2)); torch.tanh(x); x.sigmoid(); F.logsigmoid(x);
x.cos(); x.erf(); x.atan(); x.sinh(); x == x; x > 0; x != 1; (x > 0).sum(); (x > 0).sum(0); (x > 0).any(); (x > 0).all(); (x > 0).any(0); (x > -99).all(1); x.any(); x.all();
x.any(0); x.all(1); x.isnan(); x.isfinite(); torch.where(x > 0, x, 0.); x.masked_fill(x > 0, 1.); torch.zeros_like(x); torch.ones_like(x); torch.full_like(x, 2.);
x.new_zeros(x.shape); x.new_ones(3); x.float(); x.to(torch.int64); x.to(torch.float64); x.int(); x.bool(); x.long().sum(0); x.bool().sum(); x.logical_not(); x.nan_to_num();
x.count_nonzero(); x.count_nonzero(0); x.aminmax(dim=0); x.sum(0).sum(0) * 2; x.mean(0) + 1; x.sum(0) + 1; x.sum(1) * 3; x.mean() - 2; x.sum().abs(); x.sum(0).relu(); x.mean(1) ** 2;
x.amax(0) * -1; x.amax(0) + 1; x.amax() * 2; x.amax() * -2; -x.amax(1); x.amin(0).exp(); x.sum(0) / 2; x.sum(0).square().sum(); x.sum(0).max(); x.sum() == 0; x.sum(0) > 1;
x.sum(0).clamp(min=0); x.sum(0).sign(); x.sum(0).unsqueeze(0) + x; x - x.mean(0); x - x.amax(1, keepdim=True); x / x.abs().sum(1, keepdim=True).clamp(min=1); x.sum(0)[1:];
torch.cat([x.sum(0), x.sum(0)]); torch.stack([x.sum(0), x.amax(0)]); x.cumsum(0)[-1]; x.diff(dim=0); x.diff(); x.T @ x; x @ x.T; x.T.contiguous().view(-1); x.sum(0).prod(); x.sum(0).norm();
x.mean(0).norm(); x.remainder(4); x.fmod(4); x.floor_divide(2); x.reciprocal().nan_to_num(); torch.lerp(x, x * 2, 0.5); torch.addcmul(x, x, x, value=2);
torch.addcdiv(x, x, x.abs() + 1); F.pad(x, (1, 1)); F.pad(x, (0, 0, 1, 0)); F.pad(x, (-1, 0)); [F.pad(x, (1, 1)), F.pad(x, (0, 0, 1, 0))]; [torch.stack([x, x], 1), torch.stack([x, x], -1)]; torch.outer(x.view(-1), x.view(-1)); x.contiguous(); x.clone(); x.detach(); x.positive();
torch.meshgrid(x[0], x[1], indexing='ij'); x.renorm(2, 0, 1.0); torch.cov(x); torch.corrcoef(x); torch.cdist(x, x); torch.trapezoid(x); torch.einsum('ij->ji', x); torch.einsum('ij->', x);
torch.einsum('ij,kj->ik', x, x); torch.atleast_3d(x); torch.block_diag(x, x); torch.hstack([x, x]); torch.vstack([x, x]); torch.dstack([x, x]); torch.column_stack([x, x]);
torch.heaviside(x, x); x.sum().item(); x.mean().item(); x.amax().item(); bool((x > 0).any()); x.numel(); x.size(0); x.stride(); x.is_contiguous(); x.tolist() if x.dim() == 0 else x.shape;
x.view(torch.int64).sum(0) * 0; x.as_strided((2,), (1,)); torch.native_dropout(x, 0.0, True)[0]; F.dropout(x, 0.0); x.bincount() if x.dim() == 1 else x.sum(); x.nansum(0); x.nanmean(0); x.prod(1) * 2;
torch._foreach_norm([x, x]); torch._foreach_mul([x, x], 2.0); torch._foreach_add([x, x], 1.0); torch._foreach_sqrt([x.abs()]); torch._foreach_neg([x]); torch.nn.utils.get_total_norm([x, x])"""

CHANGED = """x.add_(1); x.mul_(2); x.sub_(x); x.div_(2); x.relu_(); x.fill_(3); x.zero_(); x.neg_(); x.abs_(); x.clamp_(min=0); x.exp_(); x.sigmoid_(); x.tanh_(); x.pow_(2); x.square_(); x.sign_();
x.round_(); x.floor_(); x.masked_fill_(x > 0, 1.); x.t_(); x.unsqueeze_(0); x.squeeze_(0); x.transpose_(0, 1); x.tril_(); x.triu_(); x.cumsum_(0); x.fill_diagonal_(7); x[0].fill_(3); x[0].add_(1);
x[:, 0].zero_(); x[1:3].mul_(2); x.view(-1).add_(1); x.view(-1)[0].fill_(9); x.t().mul_(3); x.narrow(0, 0, 1).fill_(2); x.select(1, 1).copy_(x.select(1, 0)); x.copy_(x + 1); x.set_(x); x.resize_(x.shape);
x.diagonal().fill_(4); x.addcmul_(x, x, value=2); x.addcdiv_(x, x.abs() + 1); x.lerp_(x * 2, 0.5); x.logical_not_(); x.remainder_(4); x.nan_to_num_(); x.index_fill_(0, torch.tensor([0]), 5.);
x.clone().fill_(3); x.clone().zero_(); x.sum(0).fill_(3); x.sum(0).add_(1); x.mean(0).mul_(2); x.sum(0).zero_(); x.amax(0).neg_(); torch._foreach_add_([x], 1.0); torch._foreach_mul_([x], 2.0);
torch._foreach_zero_([x]); torch._foreach_neg_([x]); torch._foreach_clamp_max_([x], 1.0); torch.nn.utils.clip_grads_with_norm_([x.requires_grad_()], 1.0, x.sum().detach()); F.relu_(x); F.leaky_relu_(x); F.threshold_(x, 0., 1.)"""

TWO = """x + y; x - y; x * y; x / (y.abs() + 1); x // (y.abs() + 1); torch.maximum(x, y); torch.minimum(x, y); torch.fmax(x, y); torch.where(x > 0, x, y); torch.where(y > 0, x, y); x.eq(y); x < y; x.atan2(y);
x.hypot(y); x.remainder(y.abs() + 1); x.logaddexp(y); torch.logical_and(x, y); torch.logical_xor(x, y); torch.copysign(x, y); torch.cat([x, y]); torch.cat([x, y], 1); torch.stack([x, y]); torch.stack([x, y], 1);
torch.hstack([x, y]); x @ y.t(); x.t() @ y; F.linear(x, y); torch.addmm(x @ y.t(), x, y.t()); (x * y).sum(); (x * y).sum(0) + x.sum(0); torch.lerp(x, y, 0.25); torch.addcmul(x, y, y); torch.addcdiv(x, y, y.abs() + 1);
x.sum(0) + y.sum(0); x.sum(0) * y.sum(0); x.sum(0) - y.amax(0); torch.dot(x.reshape(-1), y.reshape(-1)); x.sum(0) @ y.sum(0); torch.vdot(x.view(-1), y.view(-1)); torch.mv(x, y[0]); torch.outer(x[0], y[0]);
torch.equal(x, y); torch.allclose(x, y); torch.isclose(x, y); torch.cdist(x, y); F.cosine_similarity(x, y); F.cosine_similarity(x, y, dim=0); F.pairwise_distance(x, y); torch.dist(x, y); torch.cross(x[:, :3], y[:, :3], dim=1) if x.shape[1] > 2 else x + y;
F.mse_loss(x, y); F.mse_loss(x, y, reduction='sum'); F.mse_loss(x, y, reduction='none'); F.l1_loss(x, y); F.l1_loss(x, y, reduction='sum'); F.smooth_l1_loss(x, y); F.smooth_l1_loss(x, y, reduction='sum'); F.huber_loss(x, y);
F.huber_loss(x, y, reduction='sum'); F.kl_div(x, y.abs()); F.kl_div(x, y.abs(), reduction='sum'); F.kl_div(x, y.abs(), reduction='batchmean'); F.binary_cross_entropy_with_logits(x, y); F.soft_margin_loss(x, y.sign());
F.poisson_nll_loss(x, y.abs()); F.gaussian_nll_loss(x, y, x.abs() + 1); F.hinge_embedding_loss(x, y.sign()); F.cosine_embedding_loss(x, y, x[:, 0].sign()); F.triplet_margin_loss(x, y, x + y); F.multilabel_soft_margin_loss(x, (y > 0).double());
F.cross_entropy(x, y.softmax(1)); (x - y).abs().mean(); ((x - y) ** 2).mean(); ((x - y) ** 2).mean(0).sum(); torch.block_diag(x, y); torch.kron(x, y); torch.einsum('ij,ij->i', x, y); torch.einsum('ij,kj->ik', x, y);
torch.inner(x, y); torch.tensordot(x, y, 2); torch.tensordot(x, y, ([0], [0])); torch.bmm(x[None], y.t()[None]); torch.baddbmm((x @ y.t())[None], x[None], y.t()[None]); torch.chain_matmul(x, y.t()); torch.xlogy(x, y.abs() + 1); torch.float_power(x, 2) + y;
torch._foreach_add([x], [y]); torch._foreach_mul([x, y], [y, x]); torch._foreach_lerp([x], [y], 0.5); torch._foreach_addcmul([x], [y], [y], 2.0); torch._foreach_maximum([x], [y]); torch.heaviside(x, y); torch.nextafter(x, y); x.view_as(y); x.expand_as(y);
x.type_as(y); F.bilinear(x, y, torch.ones(2, x.shape[1], y.shape[1], dtype=x.dtype)); torch.searchsorted(x.sort(1)[0], y); torch.isin(x, y)"""

TWO_CHANGED = """x.add_(y); x.mul_(y); x.sub_(y); x.div_(y.abs() + 1); x.copy_(y); x.clone().add_(y); x.clone().copy_(y); x.sum(0).copy_(y[0]); x.amax(0).copy_(y.sum(0)); x[0].copy_(y[0]); x[1:].add_(y[1:]); x[:, 0].copy_(y[:, 1]); x.view(-1).add_(y.view(-1));
x.lerp_(y, 0.5); x.addcmul_(y, y); x.addcdiv_(y, y.abs() + 1); x.addmm_(x @ y.t(), y) if x.shape[0] == 3 else x.add_(y, alpha=2); x.masked_fill_(y > 0, 1.); x.masked_scatter_(y > 0, y); x.sub_(y.mean(0)); x.div_(y.abs().sum() + 1); x.add_(y.sum(0));
torch._foreach_add_([x], [y]); torch._foreach_addcmul_([x], [y], [y], 0.5); torch._foreach_addcdiv_([x], [y], [y.abs() + 1], 0.5); torch._foreach_lerp_([x], [y], 0.5); torch._foreach_copy_([x], [y]); torch._foreach_mul_([x], y.sum());
torch._foreach_div_([x], [y.abs() + 1]); torch._foreach_sub_([x], [y]); torch._foreach_mul_([x, y], [y, y])"""

OTHERS = """F.embedding(i, w) ; i=3x4 below 5, w=5x6
F.embedding(i, w, padding_idx=1) ; i=3x4 below 5, w=5x6
F.embedding(i, w, max_norm=2.0) ; i=3x4 below 5, w=5x6
F.embedding_bag(i, w) ; i=3x4 below 5, w=5x6
F.embedding_bag(i, w, mode='sum') ; i=3x4 below 5, w=5x6
F.embedding_bag(i, w, mode='max') ; i=3x4 below 5, w=5x6
F.one_hot(i, 5) ; i=3x4 below 5
x.index_select(0, i) ; x=4x6, i=3 below 4
x.index_select(1, i) ; x=5x3, i=4 below 3
x[i] ; x=4x6, i=3 below 4
x[:, i] ; x=5x3, i=2 below 3
x[i, j] ; x=4x6, i=3 below 4, j=3 below 6
x[b] ; x=4x6, b=4x6 bool
x.take(i) ; x=4x6, i=3 below 24
x.take_along_dim(i, 1) ; x=4x6, i=4x2 below 6
x.gather(0, i) ; x=4x6, i=2x6 below 4
x.gather(1, i) ; x=5x3, i=5x2 below 3
x.gather(1, i) ; x=4x6, i=4x6 below 6
x.scatter(0, i, 5.) ; x=4x6, i=2x6 below 4
x.scatter(1, i, 5.) ; x=5x3, i=5x2 below 3
x.scatter(1, i, y) ; x=4x6, i=4x6 order, y=4x6
x.scatter_add(0, i, y) ; x=4x6, i=4x6 below 4, y=4x6
x.scatter_add(1, i, y) ; x=5x3, i=5x3 below 3, y=5x3
x.scatter_reduce(0, i, y, 'sum') ; x=4x6, i=4x6 below 4, y=4x6
x.scatter_reduce(1, i, y, 'amax') ; x=5x3, i=5x3 below 3, y=5x3
x.scatter_reduce(1, i, y, 'mean') ; x=5x3, i=5x3 below 3, y=5x3
x.index_add(0, i, y) ; x=4x6, i=3 below 4, y=3x6
x.index_add(1, i, y) ; x=5x3, i=2 below 3, y=5x2
x.index_copy(0, i, y) ; x=4x6, i=4 order, y=4x6
x.index_fill(0, i, 2.) ; x=4x6, i=2 below 4
x.index_put((i,), y) ; x=4x6, i=4 order, y=4x6
x.index_put((i,), y, accumulate=True) ; x=4x6, i=3 below 4, y=3x6
x.index_put_((i,), y) ; x=5x3, i=5 order, y=5x3
x.index_add_(0, i, y) ; x=4x6, i=3 below 4, y=3x6
x.scatter_(1, i, y) ; x=4x6, i=4x6 order, y=4x6
x.scatter_add_(0, i, y) ; x=4x6, i=4x6 below 4, y=4x6
x.masked_select(b) ; x=4x6, b=4x6 bool
x.masked_fill(b, 2.) ; x=5x3, b=5x3 bool
x.masked_fill_(b, 2.) ; x=5x3, b=5x3 bool
torch.where(b, x, y) ; b=5x3 bool, x=5x3, y=5x3
x.slice_scatter(y, 0, 1, 3) ; x=4x6, y=2x6
x.select_scatter(y, 0, 1) ; x=4x6, y=6
x.diagonal_scatter(y) ; x=4x6, y=4
torch.bucketize(x, e) ; x=5x3, e=4 positive
F.cross_entropy(x, t) ; x=4x6, t=4 below 6
F.cross_entropy(x, t) ; x=5x3, t=5 below 3
F.cross_entropy(x, t, reduction='sum') ; x=5x3, t=5 below 3
F.cross_entropy(x, t, reduction='none') ; x=5x3, t=5 below 3
F.cross_entropy(x, t, ignore_index=0) ; x=5x3, t=5 below 3
F.cross_entropy(x, t, label_smoothing=0.1) ; x=5x3, t=5 below 3
F.cross_entropy(x, t, weight=w) ; x=5x3, t=5 below 3, w=3 positive
F.nll_loss(x, t) ; x=5x3, t=5 below 3
F.nll_loss(x, t, weight=w) ; x=5x3, t=5 below 3, w=3 positive
F.nll_loss(x, t, reduction='sum') ; x=4x6, t=4 below 6
F.multi_margin_loss(x, t) ; x=5x3, t=5 below 3
F.margin_ranking_loss(x, y, z) ; x=5, y=5, z=5
F.binary_cross_entropy(x, y) ; x=5x3 unit, y=5x3 unit
F.binary_cross_entropy(x, y, reduction='sum') ; x=4x6 unit, y=4x6 unit
F.binary_cross_entropy_with_logits(x, y, pos_weight=w) ; x=5x3, y=5x3 unit, w=3 positive
F.mse_loss(x, y) ; x=7x2, y=7x2
F.mse_loss(x, y) ; x=4x6, y=6
F.linear(x, w, b) ; x=5x3, w=4x3, b=4
F.linear(x, w, b) ; x=2x3x4, w=6x4, b=6
F.linear(x, w) ; x=2x4x4, w=5x4
x @ w ; x=2x3x4, w=4x5
x @ w ; x=2x3x4, w=2x4x5
x @ w ; x=6, w=6x3
x @ w ; x=4x6, w=6
torch.matmul(x, w) ; x=2x2x3x4, w=4x2
torch.bmm(x, w) ; x=4x3x2, w=4x2x5
torch.baddbmm(b, x, w) ; b=4x3x5, x=4x3x2, w=4x2x5
torch.addmm(b, x, w) ; b=5, x=4x6, w=6x5
torch.addmm(b, x, w, beta=2, alpha=3) ; b=4x5, x=4x6, w=6x5
torch.addmv(b, x, v) ; b=4, x=4x6, v=6
torch.addr(x, u, v) ; x=4x6, u=4, v=6
torch.addbmm(b, x, w) ; b=3x5, x=4x3x2, w=4x2x5
torch.einsum('bij,bjk->bik', x, w) ; x=4x3x2, w=4x2x5
torch.einsum('bij,jk->bik', x, w) ; x=4x3x2, w=2x5
F.scaled_dot_product_attention(q, k, v) ; q=2x4x3x4 small, k=2x4x3x4 small, v=2x4x3x4
F.scaled_dot_product_attention(q, k, v, is_causal=True) ; q=2x4x4x4 small, k=2x4x4x4 small, v=2x4x4x4
F.scaled_dot_product_attention(q, k, v, attn_mask=m) ; q=2x2x3x4 small, k=2x2x3x4 small, v=2x2x3x4, m=3x3 bool
F.scaled_dot_product_attention(q, k, v, enable_gqa=True) ; q=2x4x3x4 small, k=2x2x3x4 small, v=2x2x3x4
F.layer_norm(x, (6,), w, b) ; x=4x6, w=6, b=6
F.layer_norm(x, (3,), w, b) ; x=5x3, w=3, b=3
F.layer_norm(x, (3, 4), w, b) ; x=4x3x4, w=3x4, b=3x4
F.rms_norm(x, (6,), w) ; x=4x6, w=6
F.group_norm(x, 2, w, b) ; x=4x4x3, w=4, b=4
F.batch_norm(x, m, v, training=False) ; x=4x6, m=6, v=6 positive
F.batch_norm(x, None, None, w, b, training=True) ; x=4x6, w=6, b=6
F.instance_norm(x) ; x=4x4x5
F.local_response_norm(x, 2) ; x=4x4x5
F.conv1d(x, w) ; x=4x3x6, w=2x3x3
F.conv1d(x, w, b, padding=1) ; x=4x2x5, w=4x2x3, b=4
F.conv2d(x, w) ; x=4x2x5x5, w=4x2x3x3
F.conv2d(x, w, b, padding=1, stride=2) ; x=5x2x4x4, w=3x2x3x3, b=3
F.conv2d(x, w, groups=2) ; x=4x4x4x4, w=4x2x3x3
F.conv_transpose2d(x, w) ; x=4x2x3x3, w=2x4x2x2
F.conv3d(x, w) ; x=2x2x3x3x4, w=2x2x2x2x2
F.max_pool1d(x, 2) ; x=4x3x6
F.max_pool2d(x, 2) ; x=4x2x4x6
F.avg_pool2d(x, 2) ; x=4x2x4x6
F.avg_pool1d(x, 3, 1, 1) ; x=4x3x6
F.adaptive_avg_pool2d(x, 2) ; x=4x2x4x6
F.adaptive_max_pool1d(x, 2) ; x=4x3x6
F.interpolate(x, scale_factor=2) ; x=4x3x6
F.interpolate(x, size=(3, 3), mode='bilinear') ; x=4x2x4x4
F.pixel_shuffle(x, 2) ; x=2x4x3x3
F.unfold(x, 2) ; x=2x2x4x4
F.fold(x, (3, 3), 2) ; x=2x8x4
F.grid_sample(x, g, align_corners=False) ; x=2x2x4x4, g=2x3x3x2 unit
F.pad(x, (1, 1, 1, 1), mode='reflect') ; x=2x4x4
F.pad(x, (1, 1), mode='replicate') ; x=4x3x4
F.pad(x, (1, 1), mode='circular') ; x=4x3x4
F.prelu(x, w) ; x=4x6, w=6
x.sum((0, 2)) ; x=4x3x4
x.mean((1, 2)) ; x=4x3x5
x.amax((0, 1)) ; x=4x3x4
x.view(12, 4) ; x=4x3x4
x.view(4, 12) ; x=4x3x4
x.view(4, 2, 2, 3) ; x=4x4x3
x.view(2, 2, 12) ; x=4x4x3
x.reshape(6, 8) ; x=4x3x4
x.view(15) ; x=5x3
x.flatten(0, 1) ; x=4x3x4
x.flatten(1) ; x=5x2x3
x.flatten(0, 1) ; x=3x5x2
x.unflatten(0, (2, 4)).sum(1) ; x=8x3
x.unflatten(0, (4, 2)) ; x=8x3
x.unflatten(1, (2, 3)) ; x=5x6
x.permute(2, 0, 1) ; x=4x3x2
x.transpose(1, 2).reshape(4, -1) ; x=4x3x2
x.squeeze(1) ; x=4x1x6
x.squeeze(0) ; x=1x6
x.squeeze() ; x=1x4x1
x.expand(4, 6) ; x=1x6
x.expand(4, -1) ; x=6
x + y ; x=4x6, y=6
x + y ; x=5x3, y=1x3
x * y ; x=4x6, y=4x1
x + y ; x=4x6, y=scalar
x * y ; x=5x3, y=scalar
x.add_(y) ; x=4x6, y=6
x.mul_(y) ; x=5x3, y=scalar
x.unsqueeze(1) - y ; x=4x3, y=2x3
torch.stack([x, y, z]) ; x=6, y=6, z=6
torch.cat([x, y]) ; x=5x3, y=2x3
torch.cat([x, y], 1) ; x=5x3, y=5x2
torch.cat([x, y, z]) ; x=1x3, y=3x3, z=5x3
x.cumsum(0) ; x=7
x.sort() ; x=7
x.topk(3) ; x=9
x.argmax() ; x=12x8
x.sort(descending=True, stable=True) ; x=9
x.unique() ; x=6
x.nonzero() ; x=4x6
x.histc(4) ; x=12
x.bincount() ; x=9 below 5
x.to(torch.float32) + y ; x=4x6, y=4x6
x.trace() ; x=4x4
x.inverse() ; x=4x4
torch.linalg.det(x) ; x=4x4
torch.linalg.solve(x, y) ; x=4x4, y=4x2
torch.linalg.qr(x) ; x=4x3
torch.linalg.cholesky(x @ x.t() + 99 * e) ; x=4x4, e=4x4 positive
torch.fft.fft(x) ; x=4x6
torch.fft.rfft(x, dim=0) ; x=4x6
torch.stft(x, 4, window=w, return_complex=True) ; x=16, w=4
torch.complex(x, y) ; x=4x6, y=4x6
torch.view_as_complex(x) ; x=4x3x2
torch.nn.functional.gumbel_softmax(x) ; x=4x6
F.pdist(x) ; x=4x6
F.hardshrink(x) ; x=5x3
F.celu(x) ; x=5x3
torch.ops.aten.native_layer_norm(x, [6], w, b, 1e-5) ; x=4x6, w=6, b=6
torch.ops.aten._fused_rms_norm(x, [6], w, 1e-5) ; x=4x6, w=6
torch._fused_adam_([p], [g], [m], [v], [], [s], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False) ; p=4x6, g=4x6, m=4x6, v=4x6 positive, s=scalar positive
torch._fused_sgd_([p], [g], [m], weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, maximize=False, is_first_step=False) ; p=4x6, g=4x6, m=4x6"""


def _inputs(text):
    return tuple(tuple(part.strip().split("=", 1)) for part in text.split(", "))


def calls():
    """All calls of the table, in its order."""
    for text, names in ((ONE, "x"), (CHANGED, "x"), (TWO, "xy"), (TWO_CHANGED, "xy")):
        for source in text.replace("\n", " ").split(";"):
            for shape in SHAPES:
                yield Call(source.strip(), source.strip(), tuple((name, shape) for name in names))
    for line in OTHERS.split("\n"):
        source, given = line.split(" ; ")
        yield Call(source, source, _inputs(given))
