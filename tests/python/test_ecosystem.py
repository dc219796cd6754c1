"""transformers and accelerate find the device by themselves and get CPU's numbers. Random weights, no downloads."""

import copy

import pytest
import torch

from tests.python.support import assert_same, stat, tier

transformers = pytest.importorskip("transformers", reason="requirements/demo.txt is not installed")

VOCABULARY = 64


def bert():
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=64,
            n_embd=32,
            n_layer=2,
            n_head=2,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def llama():
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


MODELS = {"bert": bert, "gpt2": gpt2, "llama": llama}


@pytest.fixture(autouse=True)
def _on_neuron(device):
    if device != "neuron":
        pytest.skip("whether other libraries find this device")
    yield
    torch._dynamo.reset()


def train(model, device, wrap=lambda m: m):
    model = copy.deepcopy(model).to(device).train()
    run = wrap(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        ids = torch.randint(1, VOCABULARY, (2, 12), generator=generator).to(device)
        loss = run(input_ids=ids, labels=ids, attention_mask=torch.ones_like(ids)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().cpu())
    return losses


@pytest.mark.parametrize("name", MODELS)
def test_training_matches_cpu(name, mode):
    model = MODELS[name]()
    assert_same(train(model, "neuron", mode.wrap), train(model, "cpu"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("cache", [None, "static"])
def test_greedy_generation_matches_cpu(name, cache):
    """With a static cache transformers compiles the decoding step by itself, through this device's backend."""
    model = MODELS[name]().eval()
    on_device = copy.deepcopy(model).to("neuron")
    ids = torch.randint(1, VOCABULARY, (2, 5))
    options = {"max_new_tokens": 8, "do_sample": False}
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    if cache is not None:
        options["cache_implementation"] = cache
    torch.neuron.reset_stats()
    ids = ids.to("neuron")
    actual = on_device.generate(ids, attention_mask=torch.ones_like(ids), **options)
    assert_same(actual, expected)
    torch.neuron.synchronize()
    fused = sum(n for key, n in stat("ops_by_tier").items() if key not in (0, "host"))
    if cache is not None and tier() == "auto":
        assert fused > 0, "the decoding step was not compiled"


def test_transformers_takes_the_device_for_available():
    from transformers.utils.import_utils import is_torch_neuron_available

    assert is_torch_neuron_available()
    import torch_neuronx

    assert torch_neuronx.__version__


def test_accelerate_picks_the_device(mode):
    accelerate = pytest.importorskip("accelerate", reason="not among the demo's requirements")
    accelerator = accelerate.Accelerator()
    assert accelerator.device.type == "neuron"
    model = torch.nn.Linear(4, 2)
    reference = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.arange(32.0).view(8, 4) / 32, batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    run = mode.wrap(model)
    for batch in loader:
        assert batch.is_neuron
        accelerator.backward(run(batch).square().mean())
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    cpu_optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for batch in (torch.arange(32.0).view(8, 4) / 32).split(4):
        reference(batch).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 1.0)
        cpu_optimizer.step()
        cpu_optimizer.zero_grad()
    trained = accelerator.unwrap_model(model)
    assert_same(
        [p.detach() for p in trained.parameters()], [p.detach() for p in reference.parameters()], rtol=1e-4
    )
