"""What every call goes through: operands, promotion, the road into C."""
