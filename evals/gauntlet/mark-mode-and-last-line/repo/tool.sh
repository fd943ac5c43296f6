#!/bin/sh
echo old