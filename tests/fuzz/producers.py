"""What programs are made of: (weight, the mode it is for or `any`, producer)."""

from tests.fuzz import host, ops, views

PRODUCERS = [
    (14, "any", views.a_view),
    (14, "any", views.a_write),
    (10, "any", ops.unary),
    (14, "any", ops.binary),
    (4, "any", ops.ternary),
    (1, "any", ops.power),
    (4, "any", ops.cast),
    (6, "any", ops.reduction),
    (3, "any", ops.scan_or_sort),
    (5, "any", ops.matmul),
    (5, "any", ops.joining),
    (5, "any", ops.indexing),
    (3, "any", ops.network),
    (1.5, "any", ops.foreach),
    (4, "any", host.a_new_tensor),
    (3, "eager", host.a_read),
    (1.5, "adaptive", host.a_read),
    (2, "eager", host.a_device_call),
    (1, "adaptive", host.a_device_call),
    (4, "any", host.a_deletion),
    (2, "eager", host.a_storage_change),
    (1.5, "adaptive", host.a_storage_change),
    (12, "eager", host.autograd),
    (10, "adaptive", host.autograd),
    (0.7, "eager", host.random_numbers),
    (0.5, "adaptive", host.random_numbers),
]
