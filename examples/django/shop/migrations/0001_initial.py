"""Tables of the shop."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Orders."""

    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                ("state", models.CharField(default="new", max_length=20)),
                ("deliveries", models.IntegerField(default=0)),
            ],
        )
    ]
