"""What a policy is: models, fields, problems, schema."""
