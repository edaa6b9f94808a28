"""A LightningModule trained with DDP: logged values of all ranks, a validation."""
import os

import torch
from torch import nn

try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def _loss(self, batch):
        inputs, classes = batch
        return nn.functional.cross_entropy(self.net(inputs), classes)

    def training_step(self, batch, _):
        loss = self._loss(batch)
        self.log("loss", loss, sync_dist=True, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        self.log("validation", self._loss(batch), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main():
    lightning.seed_everything(1)
    random = torch.Generator().manual_seed(2)
    samples = torch.utils.data.TensorDataset(torch.randn(32, 16, generator=random), torch.randint(0, 4, (32,), generator=random))
    loaders = [torch.utils.data.DataLoader(samples, batch_size=4, shuffle=shuffle) for shuffle in (True, False)]
    trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_epochs=2,
                                logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Classifier(), *loaders)
    metrics = {name: round(value.item(), 5) for name, value in sorted(trainer.callback_metrics.items())}
    print(f"rank {trainer.global_rank}: {metrics}")


if __name__ == "__main__":
    main()
