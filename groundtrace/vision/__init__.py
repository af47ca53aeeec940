"""Handles the images and clips (videos) of questions: opens, decodes and hashes the files, cuts out crops, and draws
numbered points and boxes on copies of images (overlays).
"""
